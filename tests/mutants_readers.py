"""Known mistakes of readers, each with the tests that must notice it."""

from __future__ import annotations

from mutant import Mutant

MUTANTS = [
    Mutant(
        "the header comes from the first JSON record",
        "engines/duckdb_sources.py",
        'dict.fromkeys(self.files.partitions, ("untyped", "VARCHAR"))',
        'dict.fromkeys(__import__("json").loads(open(self.files.paths[0]).readline()), ("untyped", "VARCHAR"))',
        "test_entrance.py -k first_json_record",
    ),
    Mutant(
        "names of files are patterns",
        "engines/files.py",
        'glob.escape(path if Path(path).is_absolute() else f"./{path}")',
        'path if Path(path).is_absolute() else f"./{path}"',
        "test_entrance.py -k names_of_files",
    ),
    Mutant(
        "a file counts by each of its names",
        "engines/files.py",
        "first = found.setdefault(same, path)",
        "first = found.setdefault(path, path)",
        "test_entrance.py -k counts_once",
    ),
    Mutant(
        "objects are cast by the column",
        "engines/cells.py",
        "pa.array([key_text(item) for item in series], type=pa.string())\n\n\ndef _categories",
        "pa.array(list(series), from_pandas=True).cast(pa.string())\n\n\ndef _categories",
        "test_entrance.py -k 'bytes_in_pandas or odd_cells'",
    ),
    Mutant(
        "text that is not Unicode ends the release",
        "engines/files.py",
        "utf8_validation='replace'",
        "utf8_validation='strict'",
        "test_entrance.py -k not_unicode",
    ),
    Mutant(
        "text of Arrow is not repaired",
        "engines/cells.py",
        "        column.validate(full=True)\n",
        "        column.validate()\n",
        "test_entrance.py -k not_unicode",
    ),
    Mutant(
        "lines of another encoding vanish",
        "engines/texts.py",
        "if encoding == UTF8 and _is_utf8(path):",
        "if encoding == UTF8:",
        "test_entrance.py -k another_encoding",
    ),
    Mutant(
        "timestamps that no calendar has reach the engine",
        "engines/files.py",
        "if guarded else relation",
        "if False else relation",
        "test_readers_types.py -k calendar",
    ),
    Mutant(
        "a reader counts as rows",
        "engines/frames.py",
        'return "Arrow reader"',
        "return None",
        "test_entrance.py -k stream",
    ),
    Mutant(
        "a Spark frame of inferred types counts as files",
        "engines/spark_sources.py",
        "return reader == _DELTA_READER or (reader in _READERS and relation.partitionSchema().length() == 0)",
        "return True",
        "test_engines_spark_sources.py -k only_typed_files",
    ),
    Mutant(
        "Spark takes the name of a file for a pattern",
        "engines/spark_sources.py",
        'return "file://" + _PATTERN.sub(r"\\\\\\g<0>", str(real))',
        'return "file://" + str(real)',
        "test_engines_spark_sources.py -k 'exists_is_read_as_it_stands or written_out_once'",
    ),
    Mutant(
        "a function that was not swept is called",
        "engines/expressions.py",
        "if name not in functions.FUNCTIONS:",
        "if False:",
        "test_engines_expressions_hostile.py -k can_break",
    ),
    Mutant(
        "a column stands where only a constant is safe",
        "engines/expressions.py",
        "if not _is_constant(nodes[place]):",
        "if False:",
        "test_engines_expressions_hostile.py -k can_break",
    ),
    Mutant(
        "optimizers take expressions apart",
        "engines/duckdb.py",
        "_OPTIMIZERS_UNSAFE if expressions else ()",
        "()",
        "test_engines_expressions_hostile.py -k stays_guarded",
    ),
]
