"""Turns measurements into bench/RESULTS.md: what is wanted, and whether it is met."""

import dataclasses
import datetime
import os
import platform
import statistics

KEPT_BELOW = "<!-- Text below this line is kept by bench/run. -->"
REMARKS = "\n## Remarks\n"


class Medians:
    def __init__(self, samples):
        self.samples = samples

    def __call__(self, who, database, name, field):
        values = self.samples.get((who, database, name, field))
        return statistics.median(values) if values else None


@dataclasses.dataclass
class Row:
    """What is wanted: a ratio to `base` when `ratio` is set, else `ours` itself. Without `wanted` it is only shown."""

    what: str
    ours: float | None
    base: float | None = None
    ratio: bool = False
    wanted: tuple | None = None
    unit: str = ""

    def judged(self):
        if not self.ratio:
            return self.ours
        return self.ours / self.base if self.ours is not None and self.base else None

    def cells(self):
        judged, unit = self.judged(), "×" if self.ratio else self.unit
        wanted, met = "–", "–"
        if self.wanted:
            relation, bound = self.wanted
            wanted = f"{relation} {number(bound, unit)}"
            if judged is None:
                met = "not measured"
            else:
                met = "yes" if (judged >= bound if relation == "≥" else judged <= bound) else "**no**"
        ratio = number(judged, "×") if self.ratio else "–"
        return [self.what, number(self.ours, self.unit), number(self.base, self.unit), ratio, wanted, met]


def times(value, factor):
    return None if value is None else value * factor


def requests(ours, floor, compared, absolute):
    """The path that every user takes."""
    for kind, title in (("postgres", "PostgreSQL"), ("sqlite", "SQLite")):
        paced, clients = floor(kind, "commit_paced", "ms"), floor(kind, "commit_clients")
        many, one = ours(kind, "http_trigger_32", "rate"), ours(kind, "http_trigger_1", "p50_ms")
        yield compared(f"HTTP trigger, 32 clients, {title}: of 32 that commit a row each", many, clients, "≥", 0.5, unit="/s")
        yield absolute(f"HTTP trigger, 32 clients, {title}", many, "≥", 4000, unit="/s")
        started = ours(kind, "http_trigger_started_32", "rate")
        yield compared(f"the same beside a node that executes them, {title}", started, clients, unit="/s")
        yield compared(f"HTTP trigger, 1 client, p50, {title}: of one commit every 20 ms", one, paced, "≤", 2, unit="ms")
        bulk, enqueue = ours(kind, "bulk", "rate"), ours(kind, "enqueue", "rate")
        yield compared(f"bulk of 1,000, {title}: of enqueue", bulk, enqueue, "≥", 0.6, unit="/s")
        listed, counted = ours(kind, "http_list", "p50_ms"), ours(kind, "http_list_count", "p50_ms")
        yield absolute(f"list of 20 runs, p50, {title}", listed, "≤", 2, unit="ms")
        yield absolute(f"the same with a count, p50, {title}", counted, "≤", 10, unit="ms")


def rows(median):
    """The numbers to meet, in the order of the table."""

    def ours(database, name, field):
        return median("ours", database, name, field)

    def floor(database, name, field="rate"):
        return median("floor", database, name, field)

    def compared(what, value, base, *wanted, unit):
        return Row(what, value, base, ratio=True, wanted=wanted or None, unit=unit)

    def absolute(what, value, *wanted, unit):
        return Row(what, value, wanted=wanted, unit=unit)

    yield from requests(ours, floor, compared, absolute)

    commit = floor("postgres", "commit", "ms")
    raw, kept_raw = floor("postgres", "claim_complete"), floor("postgres", "claim_keep")
    drain, jobs = ours("postgres", "drain", "rate"), ours("postgres", "jobs", "rate")
    graphile = median("graphile-worker", "postgres", "drain", "rate")
    yield compared("drain, PostgreSQL: of raw claim + complete", drain, raw, "≥", 0.45, unit="/s")
    yield compared("drain, PostgreSQL: of the same with rows kept", drain, kept_raw, unit="/s")
    moved = floor("postgres", "claim_history")
    yield compared("drain, PostgreSQL: of the same with who, when and a history", drain, moved, "≥", 0.55, unit="/s")
    yield compared("drain, PostgreSQL: of graphile-worker, tuned", drain, graphile, "≥", 1, unit="/s")
    celery = median("celery", "redis", "drain", "rate")
    yield compared("drain, PostgreSQL: of Celery on Redis", drain, celery, unit="/s")
    restate = median("restate", "own", "drain", "rate")
    yield compared("drain, PostgreSQL: of Restate", drain, restate, unit="/s")
    yield compared("jobs, PostgreSQL: of raw claim + complete", jobs, raw, "≥", 0.35, unit="/s")
    yield compared("jobs, PostgreSQL: of the same with rows kept", jobs, kept_raw, unit="/s")
    yield compared("jobs, PostgreSQL: of the same with who, when and a history", jobs, moved, "≥", 0.45, unit="/s")

    drain_sqlite = ours("sqlite", "drain", "rate")
    yield compared(
        "drain, SQLite: of raw claim + complete", drain_sqlite, floor("sqlite", "claim_complete"), "≥", 0.5, unit="/s"
    )
    yield compared("drain, SQLite: of the same with rows kept", drain_sqlite, floor("sqlite", "claim_keep"), unit="/s")

    enqueue, single = ours("postgres", "enqueue", "rate"), ours("postgres", "enqueue_single", "p50_ms")
    yield compared(
        "enqueue in batches, PostgreSQL: of raw insert", enqueue, floor("postgres", "insert"), "≥", 0.5, unit="/s"
    )
    pairs = floor("postgres", "insert_pair")
    yield compared("enqueue in batches, PostgreSQL: of raw insert of run and task", enqueue, pairs, unit="/s")
    yield compared("enqueue one by one, PostgreSQL: of one commit", single, commit, "≤", 1.5, unit="ms")

    p50, p99 = ours("postgres", "latency", "p50_ms"), ours("postgres", "latency", "p99_ms")
    yield compared("latency p50, PostgreSQL: of one commit", p50, commit, "≤", 5, unit="ms")
    paced = floor("postgres", "commit_paced", "ms")
    yield compared("latency p50, PostgreSQL: of one commit every 20 ms", p50, paced, "≤", 1.6, unit="ms")
    yield absolute("latency p99, PostgreSQL", p99, "≤", 6, unit="ms")

    chain, fanout = ours("postgres", "chain", "seconds"), ours("postgres", "fanout", "seconds")
    yield compared(
        "chain of 40, PostgreSQL: of 40 commits", times(chain, 1e3), times(commit, 40), "≤", 3.5, unit="ms"
    )
    yield absolute("fan-out of 1,000, PostgreSQL", times(fanout, 1e3), "≤", 150, unit="ms")

    for kind, title in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        for name, words, bound in (("chain", "chain of 40", 2), ("fanout", "1,000 tasks", 1.25)):
            seconds, made = ours(kind, f"shell_{name}", "seconds"), floor("shell", f"make_{name}", "seconds")
            what = f"shell, {words}, {title}: of `make -j2`"
            yield compared(what, times(seconds, 1e3), times(made, 1e3), "≤", bound, unit="ms")

    held = ours("postgres", "drain_held", "rate")
    yield compared("drain beside a held snapshot, PostgreSQL: of drain", held, drain, "≥", 0.7, unit="/s")
    for kind, title, alone in (("postgres", "PostgreSQL", drain), ("sqlite", "SQLite", drain_sqlite)):
        beside = ours(kind, "drain_retention", "rate")
        yield compared(f"drain beside retention, {title}: of drain", beside, alone, "≥", 0.7, unit="/s")

    yield Row("fires of 100,000 triggers, PostgreSQL: of enqueue", ours("postgres", "schedules", "of_enqueue"),
              wanted=("≥", 0.25), unit="×")
    for kind, title in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        late, worst, bare = (ours(kind, "schedules_lag", of) for of in ("p99_ms", "worst_ms", "commit_worst_ms"))
        yield absolute(f"lag of 1,000 fires per second, {title}: p99", late, "≤", 100, unit="ms")
        yield compared("the same, worst: of the worst of 3,000 bare commits beside it", worst, bare, unit="ms")

    healed, found = ours("postgres", "dead_letters_batch_retry", "seconds"), ours("postgres", "staleness_detect", "seconds")
    yield absolute("10,000 dead letters healed by one batch, PostgreSQL", healed, "≤", 15, unit="s")
    yield absolute("1,000 stale of 10,000 open runs given up, PostgreSQL", found, "≤", 1, unit="s")

    resident, size = ours("sqlite", "idle", "resident_bytes"), median("ours", None, "binary", "bytes")
    yield absolute("idle server, SQLite: resident", times(resident, 1e-6), "≤", 35, unit="MB")
    yield absolute("idle server, SQLite: ready after", ours("sqlite", "idle", "ready_seconds"), "≤", 0.5, unit="s")
    yield absolute("idle server, SQLite: of one core", ours("sqlite", "idle", "core_percent"), "≤", 0.3, unit="%")
    yield absolute("binary, stripped", times(size, 1e-6), "≤", 40, unit="MB")


def number(value, unit=""):
    if value is None:
        return "–"
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".strip()


def markdown_table(header, lines):
    yield "| " + " | ".join(header) + " |"
    yield "| " + " | ".join("---" for _ in header) + " |"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def machine(version):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GiB of memory, {platform.system()}, "
        f"PostgreSQL {version} on the same machine with default durability, SQLite with WAL and `synchronous=FULL`"
    )


def telling(key):
    """Whether a field says something that another field of the same measurement does not."""
    _, _, name, field = key
    if name in ("chain", "fanout", "shell_chain", "shell_fanout", "make_chain", "make_fanout"):
        return field == "seconds"
    if name in ("commit", "commit_paced", "latency", "enqueue_single", "http_list", "http_list_count"):
        return field in ("ms", "p50_ms", "p99_ms")
    if name.startswith("http_trigger"):
        return field in ("rate", "p50_ms", "p99_ms")
    if name == "schedules_lag":
        return field.endswith("_ms")
    return field not in ("n", "seconds", "ms", "p50_ms", "p99_ms")


def spread(samples):
    """One line per measurement: smallest, median, largest over the rounds."""
    for key in sorted(samples, key=str):
        if telling(key):
            values = samples[key]
            shown = [number(each) for each in (min(values), statistics.median(values), max(values))]
            who, database, name, field = key
            yield [who, database or "–", name, field, *shown]


def kept(output):
    if output.exists() and KEPT_BELOW in output.read_text():
        return output.read_text().split(KEPT_BELOW, 1)[1]
    return REMARKS


def write(arguments, samples, failures, version, minutes):
    options = f" --rounds {arguments.rounds} --n {arguments.n} --beside {arguments.beside}"
    options += "".join(f" --{name} {','.join(given)}" for name in ("only", "skip") if (given := getattr(arguments, name)))
    options += " --peers" if arguments.peers else ""
    lines = [
        "# Measured",
        "",
        f"- Repeat with: `bench/run{options}` ({minutes:.0f} minutes here); `make bench` uses the defaults.",
        f"- Date: {datetime.date.today().isoformat()}. Machine: {machine(version)}.",
        f"- Medians of {arguments.rounds} rounds; in each round the floors and ours take turns, in new databases. "
        "Compare ratios, not numbers of different machines or hours.",
        "- Floors: `bench/floors` (raw SQL) and `bench/shell-floors` say exactly what they do.",
        "",
        *markdown_table(
            ["what", "ours", "compared with", "ratio", "wanted", "met"],
            [row.cells() for row in rows(Medians(samples))],
        ),
        "",
        "## Every measurement",
        "",
        *markdown_table(["who", "database", "what", "unit", "smallest", "median", "largest"], spread(samples)),
        "",
        *(["## Failed", "", *(f"- {failure}" for failure in failures), ""] if failures else []),
        KEPT_BELOW,
    ]
    arguments.output.write_text("\n".join(lines) + kept(arguments.output))
