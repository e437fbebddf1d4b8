"""What each executor costs: the same suite through local, Slurm and Ray on this machine."""
