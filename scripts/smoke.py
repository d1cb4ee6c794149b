"""Check an install without extras in the current folder: import, help, and one small release on the command line."""

import csv
import json
import subprocess
import sys
from pathlib import Path

COLUMNS = ("unit", "feature", "label")


def ddpmi(*words: str) -> str:
    """Run one command of the installed program and return what it printed."""
    program = Path(sys.executable).with_name("ddpmi")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"ddpmi {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Write 4,000 units with two features each, release them and rank the release."""
    import ddpmi as package

    if not Path(package.__file__).is_relative_to(Path.cwd()):
        sys.exit(f"The sources were imported instead of the wheel: {package.__file__}")
    if "release" not in ddpmi("--help"):
        sys.exit("ddpmi --help does not name the command release.")
    with Path("rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for unit in range(4000):
            label = ("north", "south")[unit % 2]
            rows.writerow((unit, "everyone", label))
            rows.writerow((unit, f"only-{label}", label))
    named = [word for column in COLUMNS for word in (f"--{column}", column)]
    budget = ["--epsilon", "2", "--delta", "1e-6"]
    ddpmi("ledger", "create", "smoke.ledger", *budget)
    to = ["--ledger", "smoke.ledger", "-o", "smoke.release"]
    ddpmi("release", "rows.csv", *named, *budget, "--pairs", "2", *to)
    ranking = json.loads(ddpmi("rank", "smoke.release", "--format", "json"))
    best = {(row["feature"], row["label"], row["direction"]) for row in ranking if row["rank_in_label"] == 1}
    expected = {(f"only-{label}", label, "presence") for label in ("north", "south")}
    if best != expected:
        sys.exit(f"The ranking of the smoke test is wrong: {sorted(best)}")
    # The page is made of files that the wheel must hold.
    ddpmi("report", "smoke.release", "-o", "smoke.html")
    if "only-north" not in Path("smoke.html").read_text(encoding="utf-8"):
        sys.exit("The report of the smoke test holds no finding.")
    print("The bare install works.")


if __name__ == "__main__":
    main()
