"""What is done: ops that write, jobs, schedules and sensors."""
