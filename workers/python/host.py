"""Process of one Python model instance; the server starts it and talks to it over descriptor 3.

    python3 host.py SERVER_PID [shared]

`shared`: descriptor 4 is a file in memory for large payloads.

Exit codes: 0 after a finalized model, 1 when the server has gone, 3 when this interpreter cannot
host models (the reason is on stderr).
"""

import os
import signal
import socket
import sys

_CHANNEL_FD = 3
_SHARED_FD = 4
_EXIT_UNUSABLE = 3


def _fail(reason):
    # Without annotations, so that an old interpreter still comes this far.
    sys.stderr.write("{}\n".format(reason))
    sys.exit(_EXIT_UNUSABLE)


def _check_interpreter():
    if sys.version_info < (3, 8):
        _fail(
            "Python 3.8 or later is needed, but {} is Python {}.{}".format(
                sys.executable, sys.version_info[0], sys.version_info[1]
            )
        )
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        _fail(
            "Python models need numpy, which {0} lacks ({1}): install it with '{0} -m pip install "
            "numpy'".format(sys.executable, error)
        )


def _die_with_server(server_pid):
    # PR_SET_PDEATHSIG is about the thread that started this process: its end, with or without
    # the whole server, kills this process even while a model holds the interpreter.
    try:
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        # Not Linux: the lifeline thread notices the closed channel.
        pass
    if os.getppid() != server_pid:
        os._exit(1)


def main():
    """Serves one model until the server finalizes it or goes away."""
    _die_with_server(int(sys.argv[1]))
    _check_interpreter()
    # The server ends its models; a terminal's Ctrl-C reaches this process too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from nereid_host.channel import HELLO, Channel, exit_with_server
    from nereid_host.server_link import ServerLink, set_link
    from nereid_host.session import Session

    # Programs that the model starts must not hold the channel.
    os.set_inheritable(_CHANNEL_FD, False)
    sock = socket.socket(fileno=_CHANNEL_FD)
    sock.setblocking(True)
    exit_with_server(sock)
    shared_fd = None
    if sys.argv[2:] == ["shared"]:
        shared_fd = _SHARED_FD
        os.set_inheritable(shared_fd, False)
    channel = Channel(sock, shared_fd)
    link = ServerLink(channel)
    set_link(link)
    channel.send(HELLO, 0)
    Session(link).run()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that a model left running must not hold the process.
    os._exit(0)


if __name__ == "__main__":
    main()
