"""The manual of what a merged report can say, for ``ascend-doctor explain``."""

from typing import NamedTuple


class Topic(NamedTuple):
    """``title`` is the property that should hold; ``explain`` is prose for users."""

    title: str
    explain: str


TOPICS = {
    "fleet-nodes": Topic(
        "Every node came to a verdict and passed",
        "A node passes if its own report has exit code 0, fails if it has 1 or if the comparison\n"
        "accuses it, and came to no verdict otherwise. What could not be told has not passed.\n"
        "Reports of simulated NPUs must not stand among those of real ones.",
    ),
    "fleet-missing": Topic(
        "Every expected node reported",
        "The names of --expect HOSTFILE are compared with those of the reports; a short name\n"
        "stands for the one full name that begins with it. Nothing is known about a silent node:\n"
        "it is listed as unknown, not as failing. Where `fleet check` started the checks it says\n"
        "why, as the scheduler knows it: a node that is drained, a check that ended with another\n"
        "code than 0, 1 or 3, one that had not ended when the time was over.",
    ),
    "fleet-unreadable": Topic(
        "Every file is a report",
        "A file that is empty, cut short, of another schema or of a newer doctor is counted and\n"
        "named; the others are merged. Write it anew with `ascend-doctor check --format json -o`,\n"
        "which replaces a file whole or not at all; a copy over the network may not.",
    ),
    "fleet-duplicate-node": Topic(
        "Every node reported once",
        "Of two reports under one name the newer counts. Two machines with one host name look the\n"
        "same and hide each other: give redacted reports different file names, or name the hosts.",
    ),
    "fleet-drift": Topic(
        "Nodes have the same stack and settings",
        "Versions, variables, limits and sizes are compared over all nodes. What more than half\n"
        "of them have is wanted; the others differ. Without such a majority nobody is accused. A\n"
        "difference in the stack (driver, firmware, CANN, Python, the packages of the matrix and\n"
        "the copies that are imported) is an error, for all ranks of a job must run the same\n"
        "program; any other difference is a warning. Settings in which the same nodes differ are\n"
        "told together. Names, addresses, times, load and free\n"
        "memory are not compared.",
    ),
    "fleet-npus": Topic(
        "Every node has as many NPUs as most",
        "Device files are counted. A node with fewer than more than half of the nodes have lost\n"
        "cards, or all of them, and fails: a job has a rank for each. Nodes with more merely\n"
        "differ (fleet-drift). Merge the reports of nodes of different kinds apart.",
    ),
    "fleet-duplicate-address": Topic(
        "Every NPU has an address of its own",
        "The addresses that hccn_tool reports are compared over all nodes, where reports are not\n"
        "redacted. An address on two NPUs makes packets arrive at one of them, and collectives\n"
        "time out on the other.",
    ),
    "fleet-outlier": Topic(
        "No node is much slower than the others",
        "Times and rates of the probes, the worst of each node, are compared by the modified\n"
        "z-score (Iglewicz and Hoaglin 1993), which half of the nodes being bad cannot bend. Told\n"
        "is what lies beyond 3.5 on the bad side, and also is a tenth below the median rate, or\n"
        "twice the median time and 0.1 s above it. Fewer than four nodes are not compared. A node\n"
        "with less than half of the median rate, or four times the median time, fails.",
    ),
}
