"""python3 test/scale/measure.py SECONDS MEGABYTES command...: runs it, and fails where it does, where it takes more processor time or more
memory; under the sanitizers more of both is allowed.  Prints the seconds.  Processor time, not time on the wall: tests run beside each other."""
import os, resource, subprocess, sys
seconds, megabytes = float(sys.argv[1]), float(sys.argv[2])
if os.environ.get("SANITIZE"): seconds, megabytes = 4 * seconds, megabytes + 512  # shadow memory, and what is kept freed
status = subprocess.run(sys.argv[3:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
took, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
print("%.3f" % took)
if status: sys.exit("exit status %d: %s" % (status, " ".join(sys.argv[3:])))
if took > seconds: sys.exit("%.2f s of the processor, wanted at most %g: %s" % (took, seconds, " ".join(sys.argv[3:])))
if peak > megabytes: sys.exit("%.0f MiB, wanted at most %g: %s" % (peak, megabytes, " ".join(sys.argv[3:])))
