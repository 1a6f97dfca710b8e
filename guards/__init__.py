"""What is decided: pure rules. No Dagster, no I/O, no clock, no environment.

Give these modules facts and get a decision. If a rule needs the time, the time is an argument.
"""
