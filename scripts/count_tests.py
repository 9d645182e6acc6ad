#!/usr/bin/env python3
"""Counts the test cases of one `bazel test`.

Usage: scripts/count_tests.py EVENTS
  EVENTS   what `bazel test --build_event_json_file=EVENTS` wrote

Prints the failed and the skipped cases and, as the last line, "N passed, N
failed" (and ", N skipped"). Only the targets of that run are counted, cached
ones included: each `<testcase>` of the test.xml files that the events name. A
target without cases counts as one; a target that Bazel calls failed (crash, timeout, a leak
found at exit) counts at least one failure, whatever its file says.
Exit code 1 if a case failed or none ran.
"""
import collections
import json
import sys
import urllib.parse
import xml.etree.ElementTree

Tally = collections.namedtuple("Tally", "passed failed skipped")
Case = collections.namedtuple("Case", "name outcome reason", defaults=[""])


def skip_reason(case):
    """GTEST_SKIP's message without its first line, which is file:line."""
    skipped = case.find("skipped")
    if skipped is None:
        return "disabled"
    lines = skipped.get("message", "").splitlines()
    return " ".join(lines[1:] or lines)


def cases_of(path):
    """The cases of a test.xml; none if it cannot be read."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    cases = []
    for case in root.iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.find("failure") is not None or case.find("error") is not None:
            cases.append(Case(name, "failed"))
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            cases.append(Case(name, "skipped", skip_reason(case)))
        else:
            cases.append(Case(name, "passed"))
    return cases


def read_events(lines):
    """(label -> overall status, label -> test.xml paths), last attempts only."""
    status, files = {}, {}
    for line in lines:
        event = json.loads(line)
        ident = event.get("id", {})
        if "testResult" in ident and "testResult" in event:
            key = ident["testResult"]
            for output in event["testResult"].get("testActionOutput", []):
                if output.get("name") == "test.xml":
                    path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                    attempts = files.setdefault(key["label"], {})
                    place = (key.get("run"), key.get("shard"))
                    attempts[place] = max(attempts.get(place, (0, "")), (key.get("attempt", 1), path))
            status.setdefault(key["label"], "NO_STATUS")
        if "testSummary" in ident and "testSummary" in event:
            status[ident["testSummary"]["label"]] = event["testSummary"].get("overallStatus", "NO_STATUS")
    return status, {label: [path for _, path in attempts.values()] for label, attempts in files.items()}


def count(status, files):
    """(Tally, a line for each failed or skipped case)"""
    outcomes, lines = collections.Counter(), []
    for label in sorted(status):
        good = status[label] in ("PASSED", "FLAKY")
        cases = [case for path in files.get(label, []) for case in cases_of(path)]
        if not cases and good:
            cases = [Case("", "passed")]
        if not good and all(case.outcome != "failed" for case in cases):
            cases.append(Case(status[label], "failed"))
        outcomes.update(case.outcome for case in cases)
        lines += ["failed: %s %s" % (label, case.name) for case in cases if case.outcome == "failed"]
        lines += ["skipped: %s %s: %s" % (label, case.name, case.reason) for case in cases if case.outcome == "skipped"]
    return Tally(outcomes["passed"], outcomes["failed"], outcomes["skipped"]), lines


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as events:
        status, files = read_events(events)
    tally, lines = count(status, files)
    for line in lines:
        print(line)
    if not status:
        print("no test target ran")
        tally = Tally(0, 1, 0)
    line = "%d passed, %d failed" % (tally.passed, tally.failed)
    print(line + (", %d skipped" % tally.skipped if tally.skipped else ""))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
