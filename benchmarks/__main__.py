"""`make bench`: every quick benchmark in turn. Those that take long are run by their own name."""

from __future__ import annotations

from benchmarks import sampler, startup


def main() -> None:
    """Run them."""
    startup.main()
    print()
    sampler.main()


if __name__ == "__main__":
    main()
