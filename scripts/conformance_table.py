#!/usr/bin/env python3
"""Prints which case of the data path's suites held on which path.

    conformance_table.py TEST_XML...

Reads GoogleTest's reports. A row is a case, a column a path; "-": the path has
no such case. Exit code 1 if any case failed."""

import re
import sys
import xml.etree.ElementTree as ElementTree

# What only one path does between two processes.
TWO_PROCESSES = re.compile(r'^(Shm|Tcp|Nccl)TwoProcessTest$')


def plain_variant(path):
    """The column of a path's plain variant, where it has several."""
    return 'tcp ipv4' if path == 'tcp' else path


def column_of(case):
    """The path that a test case is about, or None."""
    suite = case.get('classname', '')
    two = TWO_PROCESSES.match(suite)
    if two:
        return plain_variant(two.group(1).lower())
    if not re.search(r'/Transport(Conformance|Threads|TwoProcesses)$', suite):
        return None
    path = suite.split('/')[0].lower()
    if suite.endswith('TwoProcesses'):
        return plain_variant(path)
    variant = case.get('value_param', '')
    return path if variant == path else f'{path} {variant}'


def outcome_of(case):
    if case.find('failure') is not None:
        return 'FAILED'
    if case.find('skipped') is not None or case.get('result') == 'skipped':
        return 'skipped'
    return 'ok' if case.get('status') == 'run' else '-'


def read(files):
    """Rows by (kind, case) in the order of their first appearance."""
    rows, columns = {}, []
    for file in files:
        for case in ElementTree.parse(file).getroot().iter('testcase'):
            column = column_of(case)
            if column is None:
                continue
            if column not in columns:
                columns.append(column)
            name = case.get('name').split('/')[0]
            rows.setdefault(name, {})[column] = outcome_of(case)
    return rows, columns


def print_table(rows, columns):
    width = max(len(name) for name in rows)
    print(' ' * width, *(f'{column:>12}' for column in columns))
    for name, outcomes in rows.items():
        cells = (f'{outcomes.get(column, "-"):>12}' for column in columns)
        print(f'{name:<{width}}', *cells)
    counts = {}
    for outcomes in rows.values():
        for outcome in outcomes.values():
            counts[outcome] = counts.get(outcome, 0) + 1
    print(', '.join(f'{count} {outcome}'
                    for outcome, count in sorted(counts.items())))


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    rows, columns = read(arguments)
    if not rows:
        print('conformance_table: no case of the data path in these reports',
              file=sys.stderr)
        return 1
    print_table(rows, columns)
    failed = any('FAILED' in outcomes.values() for outcomes in rows.values())
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
