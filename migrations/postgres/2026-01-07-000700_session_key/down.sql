DROP TABLE session_key;
