#!/usr/bin/env python3
"""Checks the words of the documents, of the help and of the messages: ci/lint_docs.py [--count]

1. No word that docs/glossary.md retires, in documents, help texts or messages; in PLAIN_CODE also in comments and names.
2. Links and anchors of the documents resolve.
3. README.md and docs/reference/ have short sentences: 20 words on average, 35 at most.
4. README.md has at most 6.5 KB, and docs/*.md 130 KB.
5. Lines of prose have at most 100 columns, also in comments of src and cdylib/src.

--count prints the figures of 3 and 4.
"""

import glob
import os
import re
import sys

DOCUMENTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", *sorted(glob.glob("docs/**/*.md", recursive=True))]
SHORT = ["README.md", *sorted(glob.glob("docs/reference/*.md"))]
SOURCES = ["src/**/*.rs", "cdylib/src/**/*.rs", "analysis/src/**/*.rs"]
# Folders of code with checked comments and names.
PLAIN_CODE = ["analysis", "benches", "cdylib", "examples", "src", "tests"]
MOST_COLUMNS = 100
AVERAGE_WORDS = 20
MOST_WORDS = 35
README_BYTES = 6656
DOCS_BYTES = 130 * 1024


def main():
    problems = []
    retired, retired_in_code = retired_words()
    prose = {name: without_code(read(name)) for name in DOCUMENTS}
    for name, lines in prose.items():
        if name == "docs/glossary.md":
            continue
        for number, line in lines:
            problems += [f"{name}:{number}: retired: {word!r}" for word in found(retired, line)]
            if len(line) > MOST_COLUMNS and not line.startswith("|") and "](" not in line:
                problems.append(f"{name}:{number}: {len(line)} columns")
    for name, number, text in texts_of_sources():
        problems += [f"{name}:{number}: retired: {word!r} in {text!r}" for word in found(retired, text)]
    for name, number, text in comments_and_names():
        problems += [f"{name}:{number}: retired: {word!r} in {text!r}" for word in found(retired_in_code, text)]
    problems += wide_comments()
    for name in DOCUMENTS:
        problems += broken_links(name)
    problems += long_sentences({name: prose[name] for name in SHORT})
    problems += sizes()
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    sys.exit(1 if problems else 0)


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def without_code(text):
    """The numbered lines outside of code blocks, without what is between backquotes."""
    lines = []
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            lines.append((number, line))
    return [(number, re.sub(r"`[^`]*`", "`x`", line)) for number, line in lines]


def retired_words():
    """The last column of the glossary, as one expression for each word: those of all texts, and those of code."""
    words = []
    of_all = 0
    for line in read("docs/glossary.md").splitlines():
        if line == "## In comments and names":
            of_all = len(words)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[2] not in ("instead of", "---", ""):
            words += [word.strip() for word in cells[2].split(",")]
    assert 20 < of_all < len(words), words
    expressions = [(word, re.compile(r"\b" + re.escape(word) + r"\b", re.IGNORECASE)) for word in words]
    return expressions[:of_all], expressions


def found(retired, text):
    return [word for word, expression in retired if expression.search(text)]


def texts_of_sources():
    """The string literals of the sources that are sentences, and the help of options; tests are left out."""
    for pattern in SOURCES:
        for name in sorted(glob.glob(pattern, recursive=True)):
            if "/tests" in name or "fuzzing" in name or name.endswith("trial.rs"):
                continue
            text = read(name).split("#[cfg(test)]\nmod tests {")[0]
            is_command = name.startswith("analysis/src/command/")
            for number, line in enumerate(text.splitlines(), 1):
                stripped = line.strip()
                if stripped.startswith("///") and is_command:
                    # clap makes the help of these.
                    yield name, number, stripped.removeprefix("///").strip()
                    continue
                if stripped.startswith(("//", "#[", "debug_assert", "assert")):
                    continue
                if ".expect(" in line or "reason = " in line:
                    continue
                for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
                    if literal.count(" ") >= 2:
                        yield name, number, literal


def comments_and_names():
    """Comments of PLAIN_CODE line by line, joined with the next one for phrases, and the words of its names."""
    for folder in PLAIN_CODE:
        for name in sorted(glob.glob(f"{folder}/**/*.rs", recursive=True) + glob.glob(f"{folder}.rs")):
            before = ""
            for number, line in enumerate(read(name).splitlines(), 1):
                code, slashes, comment = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line).partition("//")
                comment = re.sub(r"`[^`]*`", "`x`", comment.lstrip("/!")).strip()
                if slashes:
                    # Only what the line itself completes.
                    tail = " ".join(before.split()[-3:])
                    yield name, number, f"{tail} {comment}" if tail else comment
                before = comment if slashes and not code.strip() else ""
                for identifier in set(re.findall(r"[A-Za-z_]\w*", code)):
                    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", identifier).replace("_", " ")
                    if " " in words or words.islower():
                        yield name, number, words


def wide_comments():
    """Comments of the runtime that are wider than prose may be, except rows of tables."""
    problems = []
    for pattern in ("src/**/*.rs", "cdylib/src/**/*.rs"):
        for name in sorted(glob.glob(pattern, recursive=True)):
            for number, line in enumerate(read(name).splitlines(), 1):
                if len(line) > MOST_COLUMNS and re.match(r"\s*//[/!]? (?!\|)", line):
                    problems.append(f"{name}:{number}: {len(line)} columns")
    return problems


def slugs(name):
    headings = [line.lstrip("#").strip() for _, line in headed(name)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def headed(name):
    in_code = False
    for number, line in enumerate(read(name).splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and line.startswith("#"):
            yield number, line


def broken_links(name):
    problems = []
    for number, line in without_code(read(name)):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if target.startswith(("http://", "https://")):
                continue
            path, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.exists(file):
                problems.append(f"{name}:{number}: no file {file}")
            elif anchor and anchor not in slugs(file):
                problems.append(f"{name}:{number}: no heading #{anchor} in {file}")
    return problems


def sentences(lines):
    """The sentences of paragraphs, items of lists and cells of tables, with the line where each begins."""
    blocks = []
    for number, line in lines:
        stripped = line.strip()
        if stripped.startswith("|"):
            cells = stripped.strip("|").split("|")
            blocks += [(number, cell.strip()) for cell in cells if cell.strip(" -")]
            blocks.append((number, ""))
        elif not stripped or stripped.startswith(("#", "![")):
            blocks.append((number, ""))
        elif re.match(r"([-*]|\d+\.) ", stripped):
            blocks.append((number, re.sub(r"^([-*]|\d+\.) ", "", stripped)))
        elif blocks and blocks[-1][1]:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + " " + stripped)
        else:
            blocks.append((number, stripped))
    for number, block in blocks:
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`\[*])", block):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            # Cells of a word or two are no sentences.
            if len(words) > 4:
                yield number, len(words), sentence


def long_sentences(prose):
    problems = []
    lengths = []
    for name, lines in prose.items():
        for number, length, sentence in sentences(lines):
            lengths.append(length)
            if length > MOST_WORDS:
                problems.append(f"{name}:{number}: a sentence of {length} words: {sentence[:60]}...")
    average = sum(lengths) / len(lengths)
    if "--count" in sys.argv:
        print(f"{len(lengths)} sentences, {average:.1f} words on average, {max(lengths)} at most")
    if average > AVERAGE_WORDS:
        problems.append(f"README.md, docs/reference/: {average:.1f} words a sentence, more than {AVERAGE_WORDS}")
    return problems


def sizes():
    problems = []
    limits = {"README.md": (README_BYTES, ["README.md"]), "docs/*.md": (DOCS_BYTES, glob.glob("docs/*.md"))}
    for what, (most, files) in limits.items():
        size = sum(os.path.getsize(file) for file in files)
        if "--count" in sys.argv:
            print(f"{what}: {size} bytes of at most {most}")
        if size > most:
            problems.append(f"{what}: {size} bytes, more than {most}")
    return problems


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
main()
