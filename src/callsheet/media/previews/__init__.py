"""Small images and clips of uploads and results, for lists: made once, behind everything else."""
