"""Of all tests that pytest runs."""
import signal

# Tests send signals to what they start, which must hear them also under nohup or in a shell's background.
for each in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(each, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
