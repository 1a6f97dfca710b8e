"""File servers: FTP, FTPS (explicit and implicit) and SFTP behind one interface."""
