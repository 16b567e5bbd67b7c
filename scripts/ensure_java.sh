#!/usr/bin/env bash
# Makes sure that Spark will find Java 17 or newer; installs Debian's when it may: on a terminal it
# asks first. Elsewhere, as in a build, nobody could answer.
set -euo pipefail

# Spark takes JAVA_HOME's java when the variable is set, and the PATH's only otherwise.
java_command() {
    if [[ -n "${JAVA_HOME:-}" ]]; then
        echo "$JAVA_HOME/bin/java"
    else
        echo java
    fi
}

# Prints the major version (1 for Java 8 and older, which call themselves 1.x), or 0 for no Java.
java_major() {
    local banner
    banner=$("$(java_command)" -version 2>&1) || banner=""
    if [[ "$banner" =~ version\ \"([0-9]+) ]]; then
        echo "${BASH_REMATCH[1]}"
    else
        echo 0
    fi
}

recent_enough() {
    (($(java_major) >= 17))
}

stop() {
    echo "$1" >&2
    exit 1
}

if recent_enough; then
    exit 0
fi

if [[ -n "${JAVA_HOME:-}" ]]; then
    stop "Spark needs Java 17 or newer, and JAVA_HOME ($JAVA_HOME) has none: set it to one, or unset it."
fi

if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
    stop "Spark needs Java 17 or newer: install a JRE (on Debian or Ubuntu: default-jre-headless; on macOS: openjdk@17) and put it on the PATH or in JAVA_HOME."
fi

if [[ -t 0 && -t 1 ]]; then
    read -r -p "Spark needs Java 17 or newer. Install default-jre-headless with apt-get? [Y/n] " answer
    [[ "$answer" =~ ^([yY].*)?$ ]] || stop "Install a JRE of Java 17 or newer, and put it on the PATH or in JAVA_HOME."
fi

echo "No Java 17 or newer found: installing default-jre-headless."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || stop "Spark needs Java 17 or newer, and apt-get update failed: install a JRE (default-jre-headless) by hand."
apt-get install -qq --yes --no-install-recommends default-jre-headless >/dev/null \
    || stop "Spark needs Java 17 or newer, and apt-get could not install default-jre-headless: install a JRE by hand."
hash -r
recent_enough || stop "default-jre-headless is older than Java 17 on this system: install a newer JRE and set JAVA_HOME to it."
