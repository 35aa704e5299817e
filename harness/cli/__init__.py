"""The command line: parse, call, print. Results go to stdout, everything else to stderr.

Exit codes: 0 fine, 1 a bug, 2 an error of use (one sentence), 3 too many failed requests or judge
errors, 130 interrupted.
"""

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from harness.cli.parser import build_parser
from harness.errors import DeadShard, HarnessError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what cannot be shown is escaped, never an error
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = arguments.verb(arguments)
        return code
    except HarnessError as error:
        from harness.report import printable

        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, DeadShard) else 2
    except KeyboardInterrupt:
        command = shlex.join(["harness", *(sys.argv[1:] if argv is None else argv)])
        print(
            f"\nInterrupted; every answer so far is saved. Go on with:\n  {command}",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        # Somebody downstream (head, less) has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
