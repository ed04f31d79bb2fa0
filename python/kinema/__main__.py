"""`python -m kinema`: the command line. Nothing else."""

from kinema.cli import main

if __name__ == "__main__":
    main()
