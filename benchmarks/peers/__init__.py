"""Compare our mixers with the packages that a user would otherwise install, and textbook code.

    make peers                                            # everything, more than an hour on 2 cores
    python -m benchmarks.peers --pairs "torch V" --seq-len 512 --out results/peers/mine
    python -m benchmarks.peers --tables results/peers/mine   # only make the tables

Each cell (pair, mode, length) runs in its own process with both sides. They get the same weights
and the same batch, must compute the same result, and then run alternately, step by step.
"""
