"""Where messages leave: Slack, a webhook, mail, or a directory for another program. One call per message, and what it proved."""
