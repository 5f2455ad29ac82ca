"""Runs a command in a terminal of its own: terminal.py UNTIL KEYS COMMAND...

Types the keys when UNTIL has been shown, one word after another; TERM stands for SIGTERM to the command, and ?TEXT for a wait
until that text has been shown behind the key before. Prints all that was shown, and the command's status."""

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
signal.alarm(540)
keys = [key for key in keys if key]
seen = b""
begin = 0
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    while until in seen[begin:]:
        if begin == 0:
            # What goes on that should have stopped is seen several times.
            time.sleep(1)
        begin, until = len(seen), b""
        if not keys:
            break
        key = keys.pop(0)
        if key == "TERM":
            os.kill(process, signal.SIGTERM)
        elif key.startswith("?"):
            until = key[1:].encode()
        else:
            os.write(terminal, key.encode())
status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
sys.stdout.write(seen.decode(errors="replace"))
if status != 0:
    print("status:", status)
