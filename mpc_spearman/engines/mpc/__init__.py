"""The secure multiparty protocol: CrypTen shares, three-party replicated multiplication."""
