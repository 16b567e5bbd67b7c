"""``python -m watersmeet``: the command line."""

from watersmeet.cli import app

if __name__ == "__main__":
    app(prog_name="python -m watersmeet")
