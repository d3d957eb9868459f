"""python -m shoal.dlio ARGS...: DLIO with these arguments, without its list of files (shoal.dlio.Callback)."""

import sys


def main():
    from .callback import install_or_exit

    install_or_exit()
    from dlio_benchmark.main import main as dlio_main

    sys.argv[0] = "dlio_benchmark"
    dlio_main()


if __name__ == "__main__":
    main()
