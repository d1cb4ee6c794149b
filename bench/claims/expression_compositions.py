"""Random expressions of two to four steps: repeated parts, casts within casts, and dates at the ends of the calendar."""

from __future__ import annotations

import random

TYPES = [
    *("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_NS", "TIME", "INTERVAL"),
    *("BIGINT", "INTEGER", "UBIGINT", "HUGEINT", "DOUBLE", "DECIMAL(18,3)", "VARCHAR"),
]
_DATES = """year(@)|month(@)|week(@)|yearweek(@)|isoyear(@)|dayofweek(@)|century(@)|epoch(@)|epoch_us(@)|julian(@)|era(@)|hour(@)
last_day(@)|dayname(@)|date_trunc('month', @)|date_trunc('week', @)|date_part('epoch', @)
date_part(['year', 'week'], @)|time_bucket(INTERVAL '7 days', @)|time_bucket(INTERVAL 1 MONTH, @)
timezone('Europe/Berlin', @)|@ + INTERVAL 1 DAY|@ - INTERVAL 1000000 DAY|@ + INTERVAL '200000 years'
date_diff('day', DATE '2020-01-01', @)|date_sub('month', @, DATE '2020-01-01')|strftime(@, '%Y-%W %f')
@ > DATE '2020-01-01'|to_timestamp(@)"""
_NUMBERS = """@ + 1|@ - 1|@ * 2|-(@)|@ * @|@ // 7|@ % 7|@ / 3|abs(@)|floor(@)|round(@)|round(@, -3)|trunc(@)|sign(@)|sqrt(@)|ln(@)
@ << 3|@ & 255|~(@)|to_days(@::INTEGER)|make_date(@::BIGINT, 1, 1)|@ > 5|@ = 3|@ BETWEEN 1 AND 100|@ IN (1, 2, 3)
factorial(@::INTEGER)|gcd(@, 12)|lcm(@, 7)|@ ** 3|exp(@)|to_seconds(@)|to_months(@::INTEGER)|even(@)|bit_count(@)
isinf(@)|chr(@::INTEGER)|greatest(@, @)|nullif(@, 0)"""
_TEXTS = """length(@)|lower(@)|left(@, 3)|substring(@, 2)|hash(@)|typeof(@)|TRY(@)|starts_with(@, '2')|@ LIKE '2%'
split_part(@, '-', 1)|regexp_extract(@, '[0-9]+')|lpad(@, 5, '0')|contains(@, '1')|strptime(@, '%Y-%m-%d')|hex(@)
coalesce(@, NULL)|CASE WHEN @ IS NULL THEN NULL ELSE @ END|CASE WHEN @ > 5 THEN 'a' WHEN @ > 2 THEN 'b' ELSE 'c' END"""
STEPS = [
    *(step for part in (_DATES, _NUMBERS, _TEXTS) for line in part.split("\n") for step in line.split("|") if step),
    "@ || 'x'",
    "@ || '-' || @",
    *(f"CAST(@ AS {type_})" for type_ in TYPES),
    *(f"TRY_CAST(@ AS {type_})" for type_ in TYPES),
]


def drawn(count: int, seed: int = 11) -> list[tuple[str, str]]:
    """Return texts over {0} with the type of their column. A seed always gives the same texts."""
    seeded = random.Random(seed)
    found = []
    for _ in range(count):
        text = "{0}"
        for _ in range(seeded.choice([2, 2, 3, 4])):
            text = seeded.choice(STEPS).replace("@", text if text == "{0}" else f"({text})")
        found.append((text, seeded.choice(TYPES)))
    return found
