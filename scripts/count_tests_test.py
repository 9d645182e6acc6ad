#!/usr/bin/env python3
"""Tests count_tests.py on small event files, as Bazel would write them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

COUNT_TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "count_tests.py")

GOOGLETEST = """<?xml version="1.0"?>
<testsuites tests="5" failures="1" disabled="1" name="AllTests">
  <testsuite name="LedgerTest" tests="5">
    <testcase name="Keeps" status="run" result="completed" classname="LedgerTest" />
    <testcase name="Frees" status="run" result="completed" classname="LedgerTest" />
    <testcase name="Counts" status="run" result="completed" classname="LedgerTest">
      <failure message="1 is not 2" type=""></failure>
      <failure message="nor 3" type=""></failure>
    </testcase>
    <testcase name="NeedsGpu" status="run" result="skipped" classname="LedgerTest">
      <skipped message="ledger_test.cc:7&#x0A;no GPU" />
    </testcase>
    <testcase name="DISABLED_Later" status="notrun" result="suppressed" classname="LedgerTest" />
  </testsuite>
</testsuites>"""
ALL_PASS = """<testsuites><testsuite name="a">
<testcase name="One" classname="A" status="run"/><testcase name="Two" classname="A" status="run"/>
</testsuite></testsuites>"""
SHELL_PASSES = """<testsuites><testsuite name="s"><testcase name="s" status="run"></testcase></testsuite></testsuites>"""
SHELL_FAILS = """<testsuites><testsuite name="s"><testcase name="s" status="run">
<error message="exited with error code 1"></error></testcase></testsuite></testsuites>"""


class CountTestsTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="a b")
        self.addCleanup(self.folder.cleanup)
        self.events = [{"id": {"started": {}}, "started": {"uuid": "x"}}]

    def target(self, label, status, *xmls, attempts=False):
        """A target's events; each xml is a shard, or an attempt of the one run."""
        for number, xml in enumerate(xmls, 1):
            path = os.path.join(self.folder.name, "%d.xml" % len(self.events))
            with open(path, "w", encoding="utf-8") as out:
                out.write(xml)
            key = {"label": label, "run": 1, "shard": 1 if attempts else number, "attempt": number if attempts else 1}
            self.events.append({
                "id": {"testResult": key},
                "testResult": {
                    "cachedLocally": True,
                    "testActionOutput": [{"name": "test.log", "uri": "file:///nowhere/test.log"},
                                         {"name": "test.xml", "uri": "file://" + path.replace(" ", "%20")}],
                },
            })
        self.events.append({"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}})

    def count(self):
        """(lines printed, exit code)"""
        path = os.path.join(self.folder.name, "events.json")
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(event) + "\n" for event in self.events)
        done = subprocess.run([sys.executable, COUNT_TESTS, path], stdout=subprocess.PIPE, check=False)
        return done.stdout.decode().splitlines(), done.returncode

    def test_counts_cases_and_lists_skipped_ones_apart(self):
        self.target("//memory:ledger_test", "FAILED", GOOGLETEST)
        self.assertEqual(self.count(), ([
            "failed: //memory:ledger_test LedgerTest.Counts",
            "skipped: //memory:ledger_test LedgerTest.NeedsGpu: no GPU",
            "skipped: //memory:ledger_test LedgerTest.DISABLED_Later: disabled",
            "2 passed, 1 failed, 2 skipped",
        ], 1))

    def test_adds_up_targets_and_shards(self):
        self.target("//a:a_test", "PASSED", ALL_PASS, ALL_PASS)
        self.target("//a:s_test", "PASSED", SHELL_PASSES)
        self.assertEqual(self.count(), (["5 passed, 0 failed"], 0))

    def test_a_target_without_cases_counts_as_one(self):
        self.target("//a:empty_test", "PASSED", "<testsuites/>")
        self.target("//a:silent_test", "PASSED")
        self.target("//a:cut_off_test", "TIMEOUT", "<testsuites><testsu")
        self.assertEqual(self.count(), (["failed: //a:cut_off_test TIMEOUT", "2 passed, 1 failed"], 1))

    def test_a_failed_script_counts_once(self):
        self.target("//a:s_test", "FAILED", SHELL_FAILS)
        self.assertEqual(self.count(), (["failed: //a:s_test s", "0 passed, 1 failed"], 1))

    def test_a_failure_after_the_last_case_counts(self):
        self.target("//a:a_test", "FAILED", ALL_PASS)  # such as a leak found at exit
        self.assertEqual(self.count(), (["failed: //a:a_test FAILED", "2 passed, 1 failed"], 1))

    def test_a_target_that_did_not_build_counts_as_failed(self):
        self.target("//a:a_test", "PASSED", ALL_PASS)
        self.target("//a:broken_test", "NO_STATUS")
        self.assertEqual(self.count(), (["failed: //a:broken_test NO_STATUS", "2 passed, 1 failed"], 1))

    def test_the_last_attempt_counts(self):
        self.target("//a:s_test", "FLAKY", SHELL_FAILS, SHELL_PASSES, attempts=True)
        self.assertEqual(self.count(), (["1 passed, 0 failed"], 0))

    def test_nothing_run_is_a_failure(self):
        self.assertEqual(self.count(), (["no test target ran", "0 passed, 1 failed"], 1))


if __name__ == "__main__":
    unittest.main()
