"""What ranks of device_faults.cc say, for device_faults_test.py and stream_faults_test.py."""

import re

SAID = re.compile(r"rank (\d): error of rank (-?\d), code (\d+), after ([\d.]+) s, stream empty after ([\d.]+) s: (.*)")
STUCK = 5  # seconds from an error until its stream is empty


def goes_wrong(out, err):
    """What must not be said whatever happens to another rank, or None."""
    words = re.search(r"wrong result in turn \d+|cannot go on.*", out) or re.search("terminate called.*", err)
    return words and words[0]
