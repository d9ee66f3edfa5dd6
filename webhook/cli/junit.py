"""A report as JUnit's XML."""

from xml.etree.ElementTree import Element, SubElement, tostring

from webhook.cli.report import Entry, Report, relative
from webhook.kube.printable import one_line
from webhook.validation.finding import DENY


def junit(report: Report) -> str:
    """Return JUnit's XML: a test for each object, which fails for a denial, and an error for each
    file that cannot be read.
    """
    suite = Element("testsuite", name="ray-webhook validate")
    failures = 0
    for each in report.checked:
        case = SubElement(suite, "testcase", classname=_valid(relative(each.file)))
        case.set("name", _valid(each.name))
        denied = [_told(entry) for entry in each.entries if entry.level == DENY]
        warned = [_told(entry) for entry in each.entries if entry.level != DENY]
        if denied:
            failures += 1
            failure = SubElement(case, "failure", message=_valid(denied[0]))
            failure.text = _valid("\n".join(denied))
        if warned:
            SubElement(case, "system-out").text = _valid("\n".join(warned))
    for problem in report.problems:
        case = SubElement(suite, "testcase", classname=_valid(relative(problem.file)), name="read")
        SubElement(case, "error", message=_valid(str(problem)))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("errors", str(len(report.problems)))
    root = Element("testsuites")
    root.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _told(entry: Entry) -> str:
    return f"line {entry.line}: {entry.rule} {entry.path}: {one_line(entry.message)}"


def _valid(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return "".join(
        each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text
    )
