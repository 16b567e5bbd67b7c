"""Which customers of which country order what? A stream of orders, enriched from a table.

The table of customers changes while the query runs: new customers are added, and orders that came
before their customer wait for it. Run it as it is: it makes a few files first. For your own data,
read your own stream and table instead.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import watersmeet as wm

ORDERS = "order_id bigint, customer_id bigint, amount double, ordered_at timestamp"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
COUNTRIES = ("France", "Japan", "Kenya", "Peru")


def write_customers(folder: Path, first: int, last: int) -> None:
    """A file of customers, with one row for each."""
    ids = range(first, last)
    countries = [COUNTRIES[i % len(COUNTRIES)] for i in ids]
    names = [f"customer {i}" for i in ids]
    folder.mkdir(exist_ok=True)
    pl.DataFrame({"customer_id": ids, "name": names, "country": countries}).write_parquet(
        folder / f"{first}.parquet"
    )


def write_orders(folder: Path, first: int, last: int) -> None:
    """A file of orders, ten a second; a few customers order most."""
    ids = range(first, last)
    folder.mkdir(exist_ok=True)
    pl.DataFrame(
        {
            "order_id": ids,
            "customer_id": [i * i % 1_200 if i % 3 else i % 10 for i in ids],
            "amount": [i % 50 + 0.99 for i in ids],
            "ordered_at": [NOON + timedelta(milliseconds=100 * i) for i in ids],
        }
    ).write_parquet(folder / f"{first}.parquet")


def main(folder: Path) -> None:
    write_customers(folder / "customers", 0, 1_000)
    write_orders(folder / "orders", 0, 5_000)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")
    orders = wm.stream(
        spark.readStream.schema(ORDERS).parquet(str(folder / "orders")),
        "orders",
        time="ordered_at",
        delay="10 seconds",
    )
    plan = wm.plan_enrich(
        orders,
        lambda: spark.read.parquet(str(folder / "customers")),
        on="customer_id",
        memory="64 MB",
        refresh="2 seconds",
        retry="1 hour",
        stage=str(folder / "tables"),
    )
    print(plan.explain())

    query = (
        plan.dataframe()
        .writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    last = wm.metrics(query)[-1]
    assert isinstance(last, wm.EnrichMetrics)
    print(f"{last.retried:,} orders wait for their customer.")

    write_customers(folder / "customers", 1_000, 1_200)
    time.sleep(10)
    for first in (5_000, 6_000):
        write_orders(folder / "orders", first, first + 1_000)
        query.processAllAvailable()
    query.stop()

    for step in wm.metrics(query):
        assert isinstance(step, wm.EnrichMetrics)
        print(
            f"batch {step.batch}: {step.rows:,} rows in, {step.results:,} results, "
            f"{step.retried:,} wait for a newer table, tables {', '.join(sorted(step.versions))}"
        )
    results = spark.read.parquet(str(folder / "results"))
    results.groupBy("country").agg({"amount": "sum", "*": "count"}).orderBy("country").show()
    print(f"{results.count():,} of 7,000 orders found their customer.")
    spark.stop()


if __name__ == "__main__":
    # The table may just be staged anew when the folder is removed.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        main(Path(folder))
