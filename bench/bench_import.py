"""How many abstracts does an import of texts turn into rows each second, and how much memory does it take?

    python bench/bench_import.py PAPERS.jsonl[.zst] [--papers 20000 60000 180000]

PAPERS has records in the form of AMiner V10. They are repeated to the wanted numbers of papers. Prints papers per second of wall
time and of processor time, the time of one loop in plain Python beside it, and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "import.json"


def main() -> None:
    """Measure each size in a process of its own, and write the table and the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("papers_file", type=Path)
    parser.add_argument("--papers", type=int, nargs="+", default=[20_000, 60_000, 180_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.papers_file, given.one)))
        return
    rows = []
    for papers in given.papers:
        command = [sys.executable, __file__, str(given.papers_file), "--one", str(papers)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print("  ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    RESULT.write_text(
        json.dumps({"command": "python bench/bench_import.py PAPERS.jsonl.zst", "rows": rows}, indent=2) + "\n"
    )


def measured(source: Path, papers: int) -> dict[str, Any]:
    """Import papers, and time a plain loop over a tenth of them."""
    from ddpmi.datasets import import_aminer
    from ddpmi.datasets.texts import _lines, _opened

    with _opened(source) as (stream, _):
        found = [line for line in _lines(stream) if line]
    with tempfile.TemporaryDirectory() as folder:
        file, to = Path(folder) / "papers.json", Path(folder) / "rows.parquet"
        with file.open("wb") as out:
            for number in range(papers):
                out.write(found[number % len(found)] + b"\n")
        wall, cpu = time.perf_counter(), time.process_time()
        import_aminer(file, to=to)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        tenth = [found[number % len(found)] for number in range(papers // 10)]
        loop = time.process_time()
        plain_loop(tenth)
        loop = time.process_time() - loop
    return {
        "papers": papers,
        "papers_per_wall_second": round(papers / wall),
        "papers_per_cpu_second": round(papers / cpu),
        "plain_loop_papers_per_cpu_second": round(len(tenth) / loop),
        "peak_mb": round(memory),
    }


def plain_loop(lines: list[bytes]) -> list[tuple[str, str, int, int]]:
    """Do the same the obvious way: a counter for each abstract, and one tuple for each row, which are only kept in memory."""
    made = []
    for line in lines:
        paper = json.loads(line)
        words = Counter(re.findall(r"\w+", (paper.get("abstract") or "").casefold()))
        made += [(paper["id"], word, paper["year"], count) for word, count in words.items()]
    return made


if __name__ == "__main__":
    main()
