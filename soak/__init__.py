"""Random joins on Spark for minutes or hours, under every fault we know of: does the result stay
the oracle's?

A *round* runs a few random cases side by side in one Spark driver. Its *lives* are the starts of
that driver: most end by a SIGKILL, and the next one goes on from the same checkpoints. When all
input has been read, the results are compared with what the oracle makes of the rows that came.
"""
