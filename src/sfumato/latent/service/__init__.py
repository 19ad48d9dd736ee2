"""Split learning over a connection: owners send noisy vectors, the server never sees text.

Stage 1: the server publishes an encoder and its terms.  Stage 2: owners send noisy vectors with labels, once, and a head is
trained on them.  Stage 3: owners send noisy queries.  Stage 4: they get the classes back.
"""
