namespace kvreplay {}
