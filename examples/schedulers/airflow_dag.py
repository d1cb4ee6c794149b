"""A DAG of Airflow 3 with one private release a week. A retry of a run has the same id, so it is charged once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

#: 99 makes Airflow skip the task instead of trying again: the ledger has refused (3), or the command is wrong (2).
COMMAND = """
week={{ data_interval_start.strftime('%G-W%V') }}
cd "$VISITS" && ./weekly.sh "$week" || { code=$?; [ $code -eq 1 ] && exit 1 || exit 99; }
"""

with DAG(
    dag_id="weekly_private_release",
    schedule="0 4 * * 1",
    start_date=datetime(2026, 1, 5, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
) as dag:
    BashOperator(task_id="release", bash_command=COMMAND, skip_on_exit_code=99, append_env=True)
