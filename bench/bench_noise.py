"""How fast is the noise? Samples per second on one core, beside OpenDP's samplers in the same run.

python bench/bench_noise.py [--out bench/results/noise.json] [--size 4000000] [--opendp-size 20000]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opendp.prelude as dp

from ddpmi.privacy.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = [
    *(("laplace", scale) for scale in (10, 400, 10_000, 1_000_000)),
    *(("gaussian", scale) for scale in (100, 10_000, 1_000_000, 1_000_000_000)),
]


def _best(draw: Callable[[], object], repeats: int) -> float:
    """Return the shortest of several times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        draw()
        times.append(time.perf_counter() - start)
    return min(times)


def _opendp(law: str, scale: int) -> Any:
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if law == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T=int), float(scale))
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), float(scale))


def measure(law: str, scale: int, size: int, opendp_size: int) -> dict[str, Any]:
    """Time one law at one scale: table build, our samples per second, OpenDP's."""
    exact = Fraction(scale)
    ours = DiscreteLaplace(scale=exact) if law == "laplace" else DiscreteGaussian(variance=exact**2)
    build = _best(lambda: ours.sample(1), 1)
    rate = size / _best(lambda: ours.sample(size), 5)
    theirs = _opendp(law, scale)
    zeros = [0] * opendp_size
    opendp_rate = opendp_size / _best(lambda: theirs(zeros), 3)
    return {
        "law": law,
        "scale": scale,
        "build_ms": round(build * 1e3, 2),
        "samples_per_s": round(rate),
        "opendp_samples_per_s": round(opendp_rate),
        "times_opendp": round(rate / opendp_rate, 1),
    }


def machine() -> dict[str, Any]:
    """Return what a reader needs to compare results, without host name or path."""
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "cryptography", "opendp")}
    return {
        "cpus": os.cpu_count(),
        "cores_used": 1,
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        **versions,
    }


def main() -> None:
    """Run all cases, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "noise.json")
    parser.add_argument("--size", type=int, default=4_000_000)
    parser.add_argument("--opendp-size", type=int, default=20_000)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    dp.enable_features("contrib")
    results = []
    print(f"{'law':10}{'scale':>12}{'build ms':>10}{'M samples/s':>13}{'OpenDP M/s':>12}{'times':>8}")
    for law, scale in CASES:
        got = measure(law, scale, options.size, options.opendp_size)
        results.append(got)
        ours, theirs = got["samples_per_s"] / 1e6, got["opendp_samples_per_s"] / 1e6
        print(f"{law:10}{scale:>12}{got['build_ms']:>10}{ours:>13.1f}{theirs:>12.3f}{got['times_opendp']:>8}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
