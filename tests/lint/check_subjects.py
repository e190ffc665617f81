#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commit subjects are 'area: imperative' and at most 72 characters; those before the rule stay.

The commits looked at are those after the one that brought this file, or the ranges given."""
import re
import subprocess

import lint

LENGTH = 72
AREA = re.compile(r"[a-z][\w./-]*(, [a-z][\w./-]*)*: \S")
FREE = re.compile(r"(Merge|Revert) ")
# Third person and past tense where an imperative belongs: what a subject begins with most often.
TENSE = re.compile(r": (adds|added|adding|fixes|fixed|fixing|makes|made|removes|removed|changes|"
                   r"changed|updates|updated|moves|moved|uses|used|says|said)\b")


def git(root, *argv):
    done = subprocess.run(["git", "-c", "safe.directory=*", *argv], cwd=root, text=True,
                          capture_output=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def breach(subject):
    """What is wrong with a subject, or None."""
    if FREE.match(subject):
        return None
    if len(subject) > LENGTH:
        return f"{len(subject)} characters, at most {LENGTH}"
    if not AREA.match(subject):
        return "not 'area: imperative'"
    if subject.endswith("."):
        return "a period at the end"
    if TENSE.search(subject):
        return "not in the imperative"
    return None


def main():
    options = lint.options(__doc__)
    report = lint.Report("subjects", options.root)
    ranges = options.rest
    if not ranges:
        born = git(options.root, "log", "--format=%H", "--diff-filter=A", "--",
                   "tests/lint/check_subjects.py")
        ranges = [f"{born[-1]}..HEAD"] if born else ["HEAD..HEAD"] # without a history: none
    report.checked = 1
    for row in git(options.root, "log", "--no-merges", "--format=%h %s", *ranges) or []:
        commit, _, subject = row.partition(" ")
        wrong = breach(subject)
        if wrong:
            report.add("subjects", commit, 0, f"{wrong}: {subject}")
        report.checked += 1
    report.end()


if __name__ == "__main__":
    main()
