"""The Spark session, and the Python workers that it starts.

- :mod:`.session`: what Watersmeet needs of a session, and one that has it
- :mod:`.master`: is the master this machine, and how many tasks does it run side by side?
- :mod:`.python`: which Python the workers run, and whether it has what our functions need
- :mod:`.launcher`: a script by which this Python starts faster as a worker
- :mod:`.driver_worker`: the program that Spark starts as a worker beside the driver
- :mod:`.warm_up`: workers that are ready when the first micro-batch needs them
- :mod:`.worker_object`: an object that is sent to workers, and opened there
- :mod:`.worker`: what our functions do to the worker that they run in
"""
