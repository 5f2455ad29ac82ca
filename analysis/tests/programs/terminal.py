"""Runs a command in a terminal of its own: terminal.py UNTIL KEYS COMMAND...

Types the keys when UNTIL has been shown, one word after another; TERM stands for SIGTERM to the command. Prints all that
was shown, and the command's status."""

import os
import pty
import signal
import sys
import time

until, keys, command = sys.argv[1].encode(), sys.argv[2].split(" "), sys.argv[3:]
process, terminal = pty.fork()
if process == 0:
    # A script that starts the tests in its background has them ignore what a key sends.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)
# Nothing here takes minutes: then the terminal goes, and the command with it.
signal.alarm(300)
keys = [key for key in keys if key]
seen = b""
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    if keys and until in seen:
        for key in keys:
            # The keys of one person, one after another.
            time.sleep(0.2)
            if key == "TERM":
                os.kill(process, signal.SIGTERM)
            else:
                os.write(terminal, key.encode())
        keys = []
status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
sys.stdout.write(seen.decode(errors="replace"))
if status != 0:
    print("status:", status)
