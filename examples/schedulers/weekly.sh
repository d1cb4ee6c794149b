#!/bin/sh
# Release the visits of one week. Exit codes: 0 done, 1 failed (try again), 2 wrong usage, 3 budget refused (do not try again).
set -eu
week=${1:-$(date +%G-W%V)}
ddpmi --log json release "visits-$week.parquet" --unit user_id --feature site --label country \
    --epsilon 1 --delta 1e-7 --pairs 50 --ledger visits.ledger \
    --release-id "visits-$week" -o "visits-$week.release" --who cron --why "weekly report"
ddpmi --log json report "visits-$week.release" -o "visits-$week.html"
