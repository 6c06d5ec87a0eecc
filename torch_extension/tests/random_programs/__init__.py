"""Random short programs mean on acc what they mean on the CPU.

`python -m random_programs --seconds 3600` looks for one that does not, shrinks it, and prints it
as a script.
"""
