"""Which keywords do users read about? News and access records, as two streams of XML.

A news item is published once, and is read until it drops off the ten latest ones; then
the monitor writes a punctuation: no more records of that number will come. So the join
needs no window: a record leaves when it has found its news item, a news item when its
punctuation comes. The state stays at the ten latest items, however long the streams run.

The example is that of Ding, Rundensteiner and Heineman, "MJoin: A Metadata-Aware Stream
Join Operator". Run it as it is: it writes the files first.
"""

import os
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import watersmeet as wm

ITEMS, LATEST, FILES = 100, 10, 10
START = 1_700_000_000
KEYWORDS = ("Smart Card", "Elections", "Football", "Weather")

NEWS = "sno bigint, title string, keyword string"
RECORDS = "sno bigint, ipaddr string"


def write_some_files(folder: Path) -> None:
    """Ten files of each stream, with ten items' worth of records in each."""
    chance = random.Random(1)
    for name in ("news", "access"):
        (folder / name).mkdir()
    for number in range(FILES):
        items, records = [], []
        for sno in range(number * ITEMS // FILES, (number + 1) * ITEMS // FILES):
            keyword = KEYWORDS[sno % len(KEYWORDS)]
            items.append(
                f"<info><sno> {sno} </sno><title> About {keyword} </title>"
                f"<keyword> {keyword} </keyword></info>"
            )
            for _ in range(50):
                read = chance.randint(max(0, sno - LATEST + 1), sno)
                address = ".".join(str(chance.randint(1, 250)) for _ in range(4))
                records.append(f"<record><sno> {read} </sno><ipaddr> {address} </ipaddr></record>")
            if sno >= LATEST:
                records.append(
                    f"<punct:record><sno> {sno - LATEST} </sno><ipaddr> * </ipaddr></punct:record>"
                )
        for name, element, content in (
            ("news", "stream:NewsGeneral", items),
            ("access", "stream:AccessRecord", records),
        ):
            file = folder / name / f"{number:02}.xml"
            file.write_text("\n".join([f"<{element}>", *content, f"</{element}>"]))
            # Spark reads the files of a folder in the order of their times: a minute each.
            os.utime(file, (START + 60 * number, START + 60 * number))


def read(spark, folder: Path, tag: str, schema: str):  # type: ignore[no-untyped-def]
    """The elements of one name, as a stream; a file a micro-batch."""
    return (
        spark.readStream.format("xml")
        .option("rowTag", tag)
        .option("maxFilesPerTrigger", 1)
        .option("ignoreSurroundingSpaces", True)
        .schema(schema)
        .load(str(folder))
    )


def main(folder: Path) -> None:
    write_some_files(folder)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")

    items = read(spark, folder / "news", "info", NEWS)
    records = read(spark, folder / "access", "record", RECORDS).selectExpr("*", "false AS over")
    ends = read(spark, folder / "access", "punct:record", RECORDS).selectExpr("*", "true AS over")

    news = wm.stream(items, "news", unique=True)
    access = wm.stream(records.union(ends), "access", punctuation=wm.Punctuation(when="over"))
    # A record of an item that never comes would stay for ever: here every record has its item.
    plan = wm.plan([news, access], on="sno", goal="memory", unbounded=True)
    print(plan.explain())

    query = (
        plan.dataframe()
        .selectExpr("keyword", "ipaddr")  # the query of the paper's figure 4
        .writeStream.format("parquet")
        .option("path", str(folder / "data"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    for step in wm.metrics(query):
        news_kept, records_kept = (step.streams[name].state_rows for name in ("news", "access"))
        print(
            f"micro-batch {step.batch}: {step.rows} rows, {step.results} results; "
            f"kept: {news_kept} news items, {records_kept} records"
        )
        assert news_kept <= LATEST + ITEMS // FILES
        assert records_kept == 0
    data = spark.read.parquet(str(folder / "data"))
    data.groupBy("keyword").count().orderBy("keyword").show()
    assert data.count() == 50 * ITEMS, "every record has found its news"
    spark.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
