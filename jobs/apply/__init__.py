"""What the apply runs of all guards share: the form, the decision in it, the decision's log, and the sensor of approved plans."""
