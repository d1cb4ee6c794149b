"""Known mistakes of readers, each with the tests that must notice it."""

from __future__ import annotations

from tests.support.mutant import Mutant

MUTANTS = [
    Mutant(
        "the header comes from the first JSON record",
        "engines/duckdb/source.py",
        'dict.fromkeys(self.files.partitions, ("untyped", "VARCHAR"))',
        'dict.fromkeys(__import__("json").loads(open(self.files.paths[0]).readline()), ("untyped", "VARCHAR"))',
        "guarantees/test_entrance.py -k first_json_record",
    ),
    Mutant(
        "names of files are patterns",
        "engines/duckdb/files.py",
        'glob.escape(path if Path(path).is_absolute() else f"./{path}")',
        'path if Path(path).is_absolute() else f"./{path}"',
        "guarantees/test_entrance.py -k names_of_files",
    ),
    Mutant(
        "a file counts by each of its names",
        "engines/duckdb/files.py",
        "first = found.setdefault(same, path)",
        "first = found.setdefault(path, path)",
        "guarantees/test_entrance.py -k counts_once",
    ),
    Mutant(
        "objects are cast by the column",
        "engines/duckdb/frames.py",
        "pa.array([key_text(item) for item in series], type=pa.string())\n\n\ndef _categories",
        "pa.array(list(series), from_pandas=True).cast(pa.string())\n\n\ndef _categories",
        "guarantees/test_entrance.py -k 'bytes_in_pandas or odd_cells'",
    ),
    Mutant(
        "text that is not Unicode ends the release",
        "engines/duckdb/files.py",
        "utf8_validation='replace'",
        "utf8_validation='strict'",
        "guarantees/test_entrance.py -k not_unicode",
    ),
    Mutant(
        "text of Arrow is not repaired",
        "engines/duckdb/frames.py",
        "        column.validate(full=True)\n",
        "        column.validate()\n",
        "guarantees/test_entrance.py -k not_unicode",
    ),
    Mutant(
        "lines of another encoding vanish",
        "engines/duckdb/encodings.py",
        "if encoding == UTF8 and _is_utf8(path):",
        "if encoding == UTF8:",
        "guarantees/test_entrance.py -k another_encoding",
    ),
    Mutant(
        "timestamps that no calendar has reach the engine",
        "engines/duckdb/files.py",
        "if guarded else relation",
        "if False else relation",
        "engines/duckdb/test_source_types.py -k calendar",
    ),
    Mutant(
        "a reader counts as rows",
        "engines/duckdb/frames.py",
        'return "Arrow reader"',
        "return None",
        "guarantees/test_entrance.py -k stream",
    ),
    Mutant(
        "a Spark frame of inferred types counts as files",
        "engines/spark/source.py",
        "return reader == _DELTA_READER or (reader in _READERS and relation.partitionSchema().length() == 0)",
        "return True",
        "engines/spark/test_source.py -k only_typed_files",
    ),
    Mutant(
        "Spark takes the name of a file for a pattern",
        "engines/spark/source.py",
        'return "file://" + _PATTERN.sub(r"\\\\\\g<0>", str(real))',
        'return "file://" + str(real)',
        "engines/spark/test_source.py -k 'exists_is_read_as_it_is or written_out_once'",
    ),
    Mutant(
        "a function that was not swept is called",
        "engines/duckdb/expressions.py",
        "if name not in FUNCTIONS:",
        "if False:",
        "engines/duckdb/test_expressions_hostile.py -k can_break",
    ),
    Mutant(
        "a column stands where only a constant is safe",
        "engines/duckdb/expressions.py",
        "if not _is_constant(nodes[place]):",
        "if False:",
        "engines/duckdb/test_expressions_hostile.py -k can_break",
    ),
    Mutant(
        "optimizers take expressions apart",
        "engines/duckdb/engine.py",
        "_OPTIMIZERS_UNSAFE if expressions else ()",
        "()",
        "engines/duckdb/test_expressions_hostile.py -k stays_guarded",
    ),
]
