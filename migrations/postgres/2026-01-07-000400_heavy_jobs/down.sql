DROP TABLE heavy_jobs;
