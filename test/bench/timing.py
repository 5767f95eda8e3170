"""Times that other processes change little."""
import os, resource, subprocess


def processor_seconds(command, stderr=None):
    """Of a process on one thread, and of all that it waited for; what it prints is dropped."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=stderr, env=dict(os.environ, OMP_NUM_THREADS='1'))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
