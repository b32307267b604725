"""What tests share: runs and their recordings, doubles, processes to look after."""
