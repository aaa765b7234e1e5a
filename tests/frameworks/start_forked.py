"""Have a Python program started by the process of ``forked.py``, and end as it ends: ``start_forked.py ADDRESS PROGRAM [ARGUMENT …]``.

The program has this one's standard streams, variables and folder. Signals are passed on to it. It imports little, because it runs often.
"""

import json
import os
import signal
import socket
import sys

_RUN = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def main(address: str, *program: str) -> int:
    """Return the program's exit code, or the negative number of the signal that ended it."""
    request = {"arguments": ["-c", _RUN, *program], "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asks:
        asks.connect(address)
        socket.send_fds(asks, [json.dumps(request).encode()], [0, 1, 2])
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # whoever reads from the program must see its end
            os.dup2(nothing, number)
        pid = int(asks.recv(100))
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, lambda number, _: os.kill(pid, number))
        return int(asks.recv(100).split()[0])


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    if code < 0:
        if code != -signal.SIGKILL:  # which has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
