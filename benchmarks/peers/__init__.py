"""Our mixers beside what a user would otherwise install, and beside plain textbook code.

    make peers                                            # everything, about 20 minutes on 2 cores
    python -m benchmarks.peers --pairs "torch V" --seq-len 512 --out results/peers/mine
    python -m benchmarks.peers --tables results/peers/mine   # the tables again, from the samples

Each cell (a pair, a mode, a length) in a process of its own that holds both sides: they get the
same weights and the same batch, must compute the same, and then take turns step by step.
"""
