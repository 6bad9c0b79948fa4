"""`python -m delta_sidecar` is the command `sidecar`."""

from delta_sidecar.cli.main import run

if __name__ == "__main__":
    run()
