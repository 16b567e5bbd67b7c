"""Cost models: they decide where a join has several ways to do the same.

Each paper has a model. The parts of it that decide something are here, in the paper's symbols and
with the numbers of its equations; the rest is with its experiments. Nothing here changes a result.

    engine        a window with an index, or plain? The window paper's model for this engine
    window        service rate and memory, divided between two streams (window paper)
    multiway      the order in which windows are probed (multiway paper)
    hop_order     the order in which a join without a key meets its streams (ring paper)
    ring          work and latency of a join that is sliced over nodes (ring paper)
    slices        over how many slices? The ring paper's model with this machine's weights
    enrich        which master rows to cache, and the memory of waiting rows (semi-stream paper)
    disk_phase    how a staged table is read: scan or seek, and how much in a step
    averages      running averages of what is measured
    calibration   how fast this machine is: the weights of the models, measured
"""
