"""``python -m switchgear_cli``."""

from switchgear_cli.main import main

if __name__ == "__main__":
    main()
