DROP TABLE schedules;
DROP TABLE paused_queues;
DROP TABLE job_lines;
DROP TABLE jobs;
